// SPDX-License-Identifier: Apache-2.0

// Package harness brings up a real Kubernetes on one machine, control plane
// and node, and takes it down without leaving anything behind.
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
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Process is a program that runs until it is stopped, its output in a log
// file. It dies with us: the kernel kills it when we are killed.
type Process struct {
	Name string
	Log  string
	// Pid is that of the program itself, as seen from the host, also where
	// nsenter stands between it and us.
	Pid  int
	cmd  *exec.Cmd
	done chan struct{}
}

// StartProcess runs argv, appending its output to logDir/name.log.
func StartProcess(name, logDir string, env []string, argv ...string) (*Process, error) {
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Env = append(os.Environ(), env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{}
	return startCommand(name, logDir, cmd)
}

func startCommand(name, logDir string, cmd *exec.Cmd) (*Process, error) {
	path := filepath.Join(logDir, name+".log")
	log, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr.Setpgid, cmd.SysProcAttr.Pdeathsig = true, syscall.SIGKILL
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

// Alive says whether the program still runs.
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

// TailFile returns the last lines of a file, reading at most 64 KiB of it.
func TailFile(path string, lines int) string {
	f, err := os.Open(path)
	if err != nil {
		return err.Error()
	}
	defer f.Close()
	const window = 64 << 10
	if info, err := f.Stat(); err == nil && info.Size() > window {
		_, _ = f.Seek(-window, 2)
	}
	data := make([]byte, window)
	n, _ := f.Read(data)
	all := strings.Split(strings.TrimRight(string(data[:n]), "\n"), "\n")
	if len(all) > lines {
		all = all[len(all)-lines:]
	}
	return strings.Join(all, "\n")
}

// ErrTimeout is what Poll wraps when its time is up.
var ErrTimeout = errors.New("not within the time limit")

type finalError struct{ error }

// Final marks an error that waiting longer cannot cure; Poll returns it at once.
func Final(err error) error { return finalError{err} }

// Poll calls check every step until it returns nil; after limit it returns the
// last error of check.
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
			return fmt.Errorf("%s: %w (%s): %v", what, ErrTimeout, limit, err)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s: %w: %v", what, ctx.Err(), err)
		case <-time.After(step):
		}
	}
}

// FreePort returns a port of the loopback that nothing listens on. It is taken
// from below the range that the kernel gives to outgoing connections, so that
// none of those can take it before the caller's server does.
func FreePort() (int, error) {
	const first, count, tries = 20000, 12000, 50
	for i := 0; i < tries; i++ {
		port := first + rand.IntN(count)
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err == nil {
			return port, l.Close()
		}
	}
	return 0, fmt.Errorf("no free port among %d tries", tries)
}

// freePorts returns as many different ones.
func freePorts(count int) ([]int, error) {
	var ports []int
	for len(ports) < count {
		port, err := FreePort()
		if err != nil {
			return nil, err
		}
		if !slices.Contains(ports, port) {
			ports = append(ports, port)
		}
	}
	return ports, nil
}

// onlyChild returns the pid of the one child that parent has, once it has one.
func onlyChild(ctx context.Context, parent int) (int, error) {
	var child int
	path := fmt.Sprintf("/proc/%d/task/%d/children", parent, parent)
	err := Poll(ctx, 5*time.Second, 2*time.Millisecond, "child of nsenter", func() error {
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		child, err = strconv.Atoi(strings.TrimSpace(string(data)))
		return err
	})
	return child, err
}
