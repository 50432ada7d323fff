// SPDX-License-Identifier: Apache-2.0

package main

import (
	"io"
	"net"
	"sync/atomic"
)

// relay carries TCP connections to whichever of its targets answers, in turn, as a load balancer
// before API servers does, and counts their bytes.
type relay struct {
	listener net.Listener
	targets  []string
	next     atomic.Int64
	up, down atomic.Int64 // bytes: requests, answers
}

func newRelay(targets ...string) (*relay, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	r := &relay{listener: listener, targets: targets}
	go r.accept()
	return r, nil
}

func (r *relay) url() string { return "https://" + r.listener.Addr().String() }

func (r *relay) close() { _ = r.listener.Close() }

func (r *relay) accept() {
	for {
		client, err := r.listener.Accept()
		if err != nil {
			return
		}
		go r.carry(client)
	}
}

func (r *relay) dial() (net.Conn, error) {
	var server net.Conn
	var err error
	for range r.targets {
		server, err = net.Dial("tcp", r.targets[int(r.next.Add(1))%len(r.targets)])
		if err == nil {
			break
		}
	}
	return server, err
}

// carry ends both connections when either side does.
func (r *relay) carry(client net.Conn) {
	defer client.Close()
	server, err := r.dial()
	if err != nil {
		return
	}
	go func() {
		_, _ = io.Copy(counting{server, &r.up}, client)
		_ = server.Close()
	}()
	_, _ = io.Copy(counting{client, &r.down}, server)
	_ = server.Close()
}

// counting is a writer, and no more: nothing of io.Copy goes past the counter.
type counting struct {
	to    io.Writer
	bytes *atomic.Int64
}

func (c counting) Write(p []byte) (int, error) {
	n, err := c.to.Write(p)
	c.bytes.Add(int64(n))
	return n, err
}
