// SPDX-License-Identifier: Apache-2.0

package harness

import (
	"fmt"
	"maps"
	"net"
	"runtime"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// Relay carries TCP connections, and counts their bytes. It is the node's only way to the API server, and so the place
// to cut one off.
type Relay struct {
	Up, Down atomic.Int64 // bytes: requests, answers
	Accepted atomic.Int64 // connections

	listener net.Listener
	targets  []string
	next     atomic.Int64

	mu    sync.Mutex
	conns map[net.Conn]struct{}
	cut   bool
	lost  map[net.Conn]struct{}
}

// NewRelay listens at address, in the network namespace of process pid (0: our
// own), and connects in ours to whichever of the targets answers, in turn.
func NewRelay(pid int, address string, targets ...string) (*Relay, error) {
	listener, err := listenIn(pid, address)
	if err != nil {
		return nil, err
	}
	r := &Relay{listener: listener, targets: targets, conns: map[net.Conn]struct{}{}}
	go r.accept()
	return r, nil
}

func (r *Relay) Address() string { return r.listener.Addr().String() }

// listenIn opens the socket in that network: it stays where it was made.
func listenIn(pid int, address string) (listener net.Listener, err error) {
	if pid == 0 {
		return net.Listen("tcp", address)
	}
	err = InOwnThread(func() error {
		other, err := unix.Open(fmt.Sprintf("/proc/%d/ns/net", pid), unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err != nil {
			return err
		}
		defer unix.Close(other)
		if err := unix.Setns(other, unix.CLONE_NEWNET); err != nil {
			return err
		}
		listener, err = net.Listen("tcp", address)
		return err
	})
	return listener, err
}

// ThreadNetwork is the network namespace of the calling thread.
const ThreadNetwork = "/proc/thread-self/ns/net"

// InOwnThread runs do with a thread that comes back to its network from where do goes, and lives on: the kernel kills
// what a thread started with a parent-death signal when that thread ends.
func InOwnThread(do func() error) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	own, err := unix.Open(ThreadNetwork, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(own)
	defer func() {
		if err := unix.Setns(own, unix.CLONE_NEWNET); err != nil {
			panic(fmt.Sprintf("cannot return from another network namespace: %v", err))
		}
	}()
	return do()
}

// Cut breaks every connection and refuses new ones until Mend.
func (r *Relay) Cut() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.cut = true
	for c := range r.conns {
		c.Close()
	}
}

// Forget stops carrying the bytes of the connections that there are, and closes none of them, as a gateway does
// that has lost its table: a half-open connection is silent for good, a new one works.
func (r *Relay) Forget() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lost = maps.Clone(r.conns)
}

func (r *Relay) Mend() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.cut = false
}

func (r *Relay) Close() {
	r.Cut()
	r.listener.Close()
}

func (r *Relay) accept() {
	for {
		c, err := r.listener.Accept()
		if err != nil {
			return
		}
		r.Accepted.Add(1)
		go r.carry(c)
	}
}

func (r *Relay) dial() (server net.Conn, err error) {
	first := int(r.next.Add(1))
	for i := range r.targets { // each, whoever else dials meanwhile
		server, err = net.Dial("tcp", r.targets[(first+i)%len(r.targets)])
		if err == nil {
			break
		}
	}
	return server, err
}

func (r *Relay) carry(client net.Conn) {
	defer client.Close()
	if !r.add(client) {
		return
	}
	defer r.remove(client)
	server, err := r.dial()
	if err != nil {
		return
	}
	defer server.Close()
	if !r.add(server) {
		return
	}
	defer r.remove(server)
	var both sync.WaitGroup
	both.Go(func() { r.copy(server, client, &r.Up) })
	both.Go(func() { r.copy(client, server, &r.Down) })
	both.Wait()
}

func (r *Relay) add(c net.Conn) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.cut {
		r.conns[c] = struct{}{}
	}
	return !r.cut
}

func (r *Relay) remove(c net.Conn) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.conns, c)
}

// copy ends both connections when either does: the API's clients never use half-closed ones.
func (r *Relay) copy(to, from net.Conn, bytes *atomic.Int64) {
	defer to.Close()
	defer from.Close()
	buffer := make([]byte, 32<<10)
	for {
		n, err := from.Read(buffer)
		r.mu.Lock()
		_, lost := r.lost[from]
		r.mu.Unlock()
		if lost && err == nil {
			continue
		}
		if n > 0 {
			bytes.Add(int64(n))
			if _, err := to.Write(buffer[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}
