// SPDX-License-Identifier: Apache-2.0

// Package harness brings up a real Kubernetes on one machine, and takes it down without a trace.
package harness

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Process is a program with its output in a log file. The kernel kills it when we are killed.
type Process struct {
	Name string
	Log  string
	// Pid is that of the program itself, seen from here, also behind nsenter.
	Pid  int
	cmd  *exec.Cmd
	done chan struct{}
}

// StartProcess runs argv, appending its output to logDir/name.log.
func StartProcess(name, logDir string, env []string, argv ...string) (*Process, error) {
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Env = append(os.Environ(), env...)
	path := filepath.Join(logDir, name+".log")
	log, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	fmt.Fprintf(log, "=== %s %s\n", time.Now().UTC().Format(time.RFC3339Nano), strings.Join(cmd.Args, " "))
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting %s: %w", name, err)
	}
	p := &Process{Name: name, Log: path, Pid: cmd.Process.Pid, cmd: cmd, done: make(chan struct{})}
	go func() {
		_ = cmd.Wait()
		close(p.done)
	}()
	return p, nil
}

func (p *Process) Alive() bool {
	select {
	case <-p.done:
		return false
	default:
		return true
	}
}

// Signal sends a signal to the program itself. An nsenter before it stops when the program does, but does not
// go on with it.
func (p *Process) Signal(s syscall.Signal) error {
	if s == syscall.SIGCONT && p.cmd.Process.Pid != p.Pid {
		_ = syscall.Kill(p.cmd.Process.Pid, s)
	}
	return syscall.Kill(p.Pid, s)
}

// Wait returns once the program has ended, or an error after the time limit.
func (p *Process) Wait(limit time.Duration) error {
	select {
	case <-p.done:
		return nil
	case <-time.After(limit):
		return fmt.Errorf("%s (pid %d) did not end within %s", p.Name, p.Pid, limit)
	}
}

// ExitCode is that of an ended program, -1 when a signal ended it.
func (p *Process) ExitCode() int {
	<-p.done
	return p.cmd.ProcessState.ExitCode()
}

// Kill ends the program at once, as a crash would, and waits for its end.
func (p *Process) Kill() {
	if p == nil || !p.Alive() {
		return
	}
	_ = p.Signal(syscall.SIGCONT) // a stopped one could not be reaped by its parent
	_ = p.Signal(syscall.SIGKILL)
	<-p.done
}

// Stop asks the program to end, and kills it when it does not in ten seconds.
func (p *Process) Stop() {
	if p == nil || !p.Alive() {
		return
	}
	_ = p.Signal(syscall.SIGCONT)
	_ = p.Signal(syscall.SIGTERM)
	if p.Wait(10*time.Second) != nil {
		p.Kill()
	}
}

// Tail returns the end of the program's log, for a failure's report.
func (p *Process) Tail(lines int) string { return TailFile(p.Log, lines) }

// Tails is the same of several; nil: it was not started.
func Tails(lines int, processes ...*Process) string {
	var b strings.Builder
	for _, p := range processes {
		if p != nil {
			fmt.Fprintf(&b, "--- %s (alive: %v), %s\n%s\n", p.Name, p.Alive(), p.Log, p.Tail(lines))
		}
	}
	return b.String()
}

func TailFile(path string, lines int) string {
	data, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	all := strings.Split(strings.TrimRight(string(data), "\n"), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}

type finalError struct{ error }

// Final marks an error that waiting longer cannot cure; Poll returns it at once.
func Final(err error) error { return finalError{err} }

// Poll calls check every step until it returns nil; after limit it returns the last error.
func Poll(ctx context.Context, limit, step time.Duration, what string, check func() error) error {
	deadline := time.Now().Add(limit)
	for {
		err := check()
		if err == nil {
			return nil
		}
		var final finalError
		if errors.As(err, &final) {
			return fmt.Errorf("%s: %w", what, final.error)
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("%s: not within %s: %v", what, limit, err)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s: %w: %v", what, ctx.Err(), err)
		case <-time.After(step):
		}
	}
}

// freePorts returns so many ports of the loopback that nothing listens on, from below the range of outgoing
// connections: none of those takes one before the caller's server does.
func freePorts(count int) ([]int, error) {
	const first, room, tries = 20000, 12000, 50
	var ports []int
	for range tries {
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", first+rand.IntN(room)))
		if err != nil {
			continue
		}
		defer l.Close() // until all are found: each is another one
		ports = append(ports, l.Addr().(*net.TCPAddr).Port)
		if len(ports) == count {
			return ports, nil
		}
	}
	return nil, fmt.Errorf("no %d free ports in %d tries", count, tries)
}

// onlyChild returns the pid of the one child that parent has, once it has one.
func onlyChild(ctx context.Context, parent int) (int, error) {
	var child int
	path := fmt.Sprintf("/proc/%d/task/%d/children", parent, parent)
	err := Poll(ctx, 5*time.Second, 2*time.Millisecond, "its child", func() error {
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		child, err = strconv.Atoi(strings.TrimSpace(string(data)))
		return err
	})
	return child, err
}
