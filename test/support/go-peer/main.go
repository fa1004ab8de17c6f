// A peer that speaks the wire as the Go implementation does: one socket, encoding/json both ways, its PINGs stamped
// with time.Now in local time, its answers decoded and encoded anew. For each valid PONG it prints the peer's address.
//
//	go-peer BIND:PORT INTERVAL PEER...
package main

import (
	"encoding/json"
	"fmt"
	"net"
	"os"
	"time"
)

type message struct {
	ClusterID string    `json:"clusterID"`
	MsgType   string    `json:"msgType"`
	TimeStamp time.Time `json:"timeStamp"`
}

func main() {
	local, err := net.ResolveUDPAddr("udp4", os.Args[1])
	check(err)
	interval, err := time.ParseDuration(os.Args[2])
	check(err)
	conn, err := net.ListenUDP("udp4", local)
	check(err)
	for _, peer := range os.Args[3:] {
		go ping(conn, &net.UDPAddr{IP: net.ParseIP(peer), Port: local.Port}, interval)
	}
	buffer := make([]byte, 1024)
	for {
		n, from, err := conn.ReadFromUDP(buffer)
		if err != nil {
			continue
		}
		var msg message
		if json.Unmarshal(buffer[:n], &msg) != nil {
			fmt.Println("malformed", from.IP)
			continue
		}
		switch msg.MsgType {
		case "PING":
			msg.MsgType = "PONG"
			reply, err := json.Marshal(msg)
			check(err)
			_, _ = conn.WriteToUDP(reply, from)
		case "PONG":
			fmt.Println(msg.ClusterID, from.IP, time.Since(msg.TimeStamp).Nanoseconds())
		}
	}
}

func ping(conn *net.UDPConn, to *net.UDPAddr, interval time.Duration) {
	for range time.Tick(interval) {
		bytes, err := json.Marshal(message{ClusterID: "go-cluster", MsgType: "PING", TimeStamp: time.Now()})
		check(err)
		_, _ = conn.WriteToUDP(bytes, to)
	}
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
