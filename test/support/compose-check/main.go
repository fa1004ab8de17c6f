// Loads a compose file as Docker Compose does with every profile, checks it, and writes the project as JSON.
//
// usage: compose-check FILE
package main

import (
	"context"
	"fmt"
	"os"

	"github.com/compose-spec/compose-go/v2/cli"
)

func main() {
	if len(os.Args) != 2 {
		fail(fmt.Errorf("usage: compose-check FILE"))
	}
	options, err := cli.NewProjectOptions(os.Args[1:], cli.WithResolvedPaths(false), cli.WithProfiles([]string{"*"}))
	if err != nil {
		fail(err)
	}
	project, err := options.LoadProject(context.Background())
	if err != nil {
		fail(err)
	}
	text, err := project.MarshalJSON()
	if err != nil {
		fail(err)
	}
	if _, err := os.Stdout.Write(text); err != nil {
		fail(err)
	}
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}
