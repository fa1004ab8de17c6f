/*
 * The floor: what the ping path costs in C. One connected socket a tunnel, epoll, one timer that spreads its sends,
 * the wire of the gateway, a table of outstanding PINGs. It is the yardstick and the peer of `npm run bench -- gateway`.
 *
 *   floor ping    SIDE TUNNELS INTERVAL_US SECONDS   sends, answers, measures; prints counts and round trips
 *   floor respond SIDE TUNNELS                       answers until it is told to end
 *   floor flood   SIDE WINDOW SECONDS                sends PINGs on the first tunnel as fast as they are answered
 *
 * SIGUSR2 makes it print how many PONGs it has received. SIDE 1 has 169.254.18.(4i+1), SIDE 2 has .(4i+2).
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

enum { PORT = 12345, MAX_TUNNELS = 64, RING = 256, SIZE = 1024, MAX_SAMPLES = 4000000 };

struct tunnel {
  int socket;
  char ping[128];
  size_t length, stamp_at;
  int64_t due_ns;
  uint64_t sent;
  int64_t sent_ns[RING];
  char stamps[RING][31];
  uint8_t outstanding[RING];
};

static struct tunnel tunnels[MAX_TUNNELS];
static int side, count, events;
static uint64_t sent, received, answered, dropped;
static uint32_t *samples_ns;
static volatile sig_atomic_t ended, asked;

static void on_signal(int signal) {
  if (signal == SIGUSR2) asked = 1;
  else ended = 1;
}

static int64_t now_ns(clockid_t clock) {
  struct timespec time;
  clock_gettime(clock, &time);
  return time.tv_sec * 1000000000LL + time.tv_nsec;
}

static void die(const char *what) {
  perror(what);
  exit(1);
}

static struct sockaddr_in address_of(int tunnel, int host) {
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(PORT)};
  address.sin_addr.s_addr = htonl((169u << 24) | (254 << 16) | (18 << 8) | (unsigned)(4 * tunnel + host));
  return address;
}

static void open_tunnel(int index) {
  struct tunnel *tunnel = &tunnels[index];
  struct sockaddr_in local = address_of(index, side), peer = address_of(index, 3 - side);
  tunnel->socket = socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK, 0);
  if (bind(tunnel->socket, (void *)&local, sizeof local) < 0) die("bind");
  if (connect(tunnel->socket, (void *)&peer, sizeof peer) < 0) die("connect");
  struct epoll_event event = {.events = EPOLLIN, .data.u64 = (uint64_t)index};
  if (epoll_ctl(events, EPOLL_CTL_ADD, tunnel->socket, &event) < 0) die("epoll_ctl");
  char name[32];
  if (index == 0) snprintf(name, sizeof name, "liqo-tunnel#f100f100");
  else snprintf(name, sizeof name, "liqo-tunnel%d#f100f100", index);
  int head = snprintf(tunnel->ping, sizeof tunnel->ping, "{\"clusterID\":\"%s\",\"msgType\":\"PING\",\"timeStamp\":\"", name);
  tunnel->stamp_at = (size_t)head;
  tunnel->length = (size_t)(head + snprintf(tunnel->ping + head, sizeof tunnel->ping - (size_t)head, "%30s\"}", ""));
}

static void write_stamp(char *at, int64_t unix_ns) {
  static time_t cached_second = -1;
  static char second_text[21];
  time_t second = unix_ns / 1000000000;
  if (second != cached_second) {
    struct tm date;
    gmtime_r(&second, &date);
    strftime(second_text, sizeof second_text, "%Y-%m-%dT%H:%M:%S.", &date);
    cached_second = second;
  }
  memcpy(at, second_text, 20);
  long nanos = unix_ns % 1000000000;
  for (int digit = 28; digit >= 20; digit--, nanos /= 10) at[digit] = (char)('0' + nanos % 10);
  at[29] = 'Z';
}

static void send_ping(struct tunnel *tunnel) {
  int slot = (int)(tunnel->sent++ % RING);
  char *stamp = tunnel->ping + tunnel->stamp_at;
  write_stamp(stamp, now_ns(CLOCK_REALTIME));
  memcpy(tunnel->stamps[slot], stamp, 30);
  tunnel->outstanding[slot] = 1;
  tunnel->sent_ns[slot] = now_ns(CLOCK_MONOTONIC);
  if (send(tunnel->socket, tunnel->ping, tunnel->length, 0) >= 0) sent++;
}

/* The stamp as a peer may have encoded it anew: trailing zeros of the second may be gone. */
static int same_stamp(const char *ours, const char *theirs, size_t length) {
  if (length < 20 || memcmp(ours, theirs, 19) != 0 || theirs[length - 1] != 'Z') return 0;
  for (size_t digit = 19; digit < 29; digit++) {
    char want = digit < length - 1 ? theirs[digit] : digit == 19 ? '.' : '0';
    if (ours[digit] != want) return 0;
  }
  return 1;
}

static void take_pong(struct tunnel *tunnel, const char *bytes, size_t length, int64_t at_ns) {
  if (memcmp(bytes, tunnel->ping, tunnel->stamp_at - 30) != 0) { dropped++; return; }
  for (uint64_t back = 1; back <= RING && back <= tunnel->sent; back++) {
    int slot = (int)((tunnel->sent - back) % RING);
    if (!tunnel->outstanding[slot]) continue;
    if (!same_stamp(tunnel->stamps[slot], bytes + tunnel->stamp_at, length - tunnel->stamp_at - 2)) continue;
    tunnel->outstanding[slot] = 0;
    if (samples_ns != NULL && received < MAX_SAMPLES) samples_ns[received] = (uint32_t)(at_ns - tunnel->sent_ns[slot]);
    received++;
    return;
  }
  dropped++;
}

static void receive(struct tunnel *tunnel) {
  char bytes[SIZE + 1];
  ssize_t length;
  while ((length = recv(tunnel->socket, bytes, SIZE, 0)) >= 0) {
    int64_t at_ns = now_ns(CLOCK_MONOTONIC);
    bytes[length] = 0;
    char *type = strstr(bytes, "\"msgType\":\"P");
    if (type == NULL || memcmp(bytes, "{\"clusterID\":\"", 14) != 0) { dropped++; continue; }
    type += 12;
    if (memcmp(type, "ONG\"", 4) == 0) {
      take_pong(tunnel, bytes, (size_t)length, at_ns);
    } else if (memcmp(type, "ING\"", 4) == 0) {
      *type = 'O';
      if (send(tunnel->socket, bytes, (size_t)length, 0) >= 0) answered++;
    }
  }
}

static int compare(const void *a, const void *b) {
  uint32_t left = *(const uint32_t *)a, right = *(const uint32_t *)b;
  return (left > right) - (left < right);
}

static void report(double seconds) {
  size_t n = received < MAX_SAMPLES ? received : MAX_SAMPLES;
  if (n > 0) qsort(samples_ns, n, sizeof *samples_ns, compare);
  double p50 = n ? samples_ns[n / 2] / 1e3 : 0, p99 = n ? samples_ns[n * 99 / 100] / 1e3 : 0;
  printf("{\"sent\":%lu,\"received\":%lu,\"answered\":%lu,\"dropped\":%lu,\"seconds\":%.3f,\"rttP50Us\":%.1f,\"rttP99Us\":%.1f}\n",
         sent, received, answered, dropped, seconds, p50, p99);
}

static void read_sockets(int timeout_ms) {
  struct epoll_event ready[MAX_TUNNELS + 1];
  int n = epoll_wait(events, ready, MAX_TUNNELS + 1, timeout_ms);
  if (asked) {
    asked = 0;
    printf("{\"received\":%lu}\n", received);
    fflush(stdout);
  }
  for (int i = 0; i < n; i++) {
    if (ready[i].data.u64 < MAX_TUNNELS) receive(&tunnels[ready[i].data.u64]);
    else { uint64_t expirations; if (read((int)ready[i].data.u64 - MAX_TUNNELS, &expirations, 8) < 0 && errno != EAGAIN) die("read"); }
  }
}

static void run_ping(int64_t interval_ns, double seconds) {
  int timer = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK);
  struct epoll_event event = {.events = EPOLLIN, .data.u64 = (uint64_t)(timer + MAX_TUNNELS)};
  epoll_ctl(events, EPOLL_CTL_ADD, timer, &event);
  int64_t begin = now_ns(CLOCK_MONOTONIC), end = begin + (int64_t)(seconds * 1e9);
  for (int i = 0; i < count; i++) tunnels[i].due_ns = begin + interval_ns * i / count;
  while (!ended) {
    int64_t now = now_ns(CLOCK_MONOTONIC), next = end;
    if (now >= end) break;
    for (int i = 0; i < count; i++) {
      struct tunnel *tunnel = &tunnels[i];
      if (tunnel->due_ns <= now) {
        send_ping(tunnel);
        tunnel->due_ns += interval_ns * ((now - tunnel->due_ns) / interval_ns + 1);
      }
      if (tunnel->due_ns < next) next = tunnel->due_ns;
    }
    struct itimerspec due = {.it_value = {next / 1000000000, next % 1000000000}};
    timerfd_settime(timer, TFD_TIMER_ABSTIME, &due, NULL);
    read_sockets(-1);
  }
  for (int i = 0; i < 20; i++) read_sockets(5);
  report((now_ns(CLOCK_MONOTONIC) - begin) / 1e9);
}

static void run_flood(uint64_t window, double seconds) {
  int64_t begin = now_ns(CLOCK_MONOTONIC), end = begin + (int64_t)(seconds * 1e9), heard = begin;
  uint64_t known = 0, lost = 0;
  while (!ended && now_ns(CLOCK_MONOTONIC) < end) {
    while (sent - received - lost < window) send_ping(&tunnels[0]);
    read_sockets(1);
    int64_t now = now_ns(CLOCK_MONOTONIC);
    if (received != known) known = received, heard = now;
    else if (now - heard > 20000000) lost = sent - received, heard = now; /* what was dropped does not come any more */
  }
  report((now_ns(CLOCK_MONOTONIC) - begin) / 1e9);
}

int main(int argc, char **argv) {
  if (argc < 4) { fprintf(stderr, "floor ping SIDE TUNNELS INTERVAL_US SECONDS | respond SIDE TUNNELS | flood SIDE WINDOW SECONDS\n"); return 2; }
  signal(SIGTERM, on_signal), signal(SIGINT, on_signal), signal(SIGUSR2, on_signal);
  events = epoll_create1(0);
  side = atoi(argv[2]);
  int is_flood = strcmp(argv[1], "flood") == 0;
  count = is_flood ? 1 : atoi(argv[3]);
  samples_ns = malloc(sizeof *samples_ns * MAX_SAMPLES);
  for (int i = 0; i < count; i++) open_tunnel(i);
  fprintf(stderr, "ready\n");
  if (is_flood) run_flood((uint64_t)atoi(argv[3]), atof(argv[4]));
  else if (strcmp(argv[1], "ping") == 0) run_ping(atoll(argv[4]) * 1000, atof(argv[5]));
  else { while (!ended) read_sockets(-1); report(0); }
  return 0;
}
