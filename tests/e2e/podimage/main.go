// SPDX-License-Identifier: Apache-2.0

// Command podimage is both what runs in the tests' pods and what makes their
// image, so that the image holds one static binary and is made without any
// registry or tool: `podimage write NAME FILE` writes a docker archive with
// this very program as /pod. As /pod it waits for SIGTERM, and reaps orphans,
// since it is the sandbox's pid 1 too.
package main

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"syscall"
)

func main() {
	if len(os.Args) == 4 && os.Args[1] == "write" {
		if err := writeImage(os.Args[2], os.Args[3]); err != nil {
			fmt.Fprintln(os.Stderr, "podimage:", err)
			os.Exit(1)
		}
		return
	}
	signals := make(chan os.Signal, 16)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT, syscall.SIGCHLD)
	fmt.Println("pod runs")
	for s := range signals {
		if s != syscall.SIGCHLD {
			return
		}
		for {
			if pid, err := syscall.Wait4(-1, nil, syscall.WNOHANG, nil); pid <= 0 || err != nil {
				break
			}
		}
	}
}

func writeImage(name, path string) error {
	program, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		return err
	}
	layer, err := archive(file{"pod", 0o755, program})
	if err != nil {
		return err
	}
	digest := sha256.Sum256(layer)
	config, err := json.Marshal(map[string]any{
		"architecture": runtime.GOARCH, "os": "linux",
		"config": map[string]any{"Entrypoint": []string{"/pod"}},
		"rootfs": map[string]any{"type": "layers", "diff_ids": []string{"sha256:" + hex.EncodeToString(digest[:])}},
	})
	if err != nil {
		return err
	}
	manifest, err := json.Marshal([]map[string]any{{
		"Config": "config.json", "RepoTags": []string{name}, "Layers": []string{"layer.tar"},
	}})
	if err != nil {
		return err
	}
	image, err := archive(file{"layer.tar", 0o644, layer}, file{"config.json", 0o644, config},
		file{"manifest.json", 0o644, manifest})
	if err != nil {
		return err
	}
	return os.WriteFile(path, image, 0o644)
}

type file struct {
	name string
	mode int64
	data []byte
}

func archive(files ...file) ([]byte, error) {
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for _, f := range files {
		header := &tar.Header{Name: f.name, Mode: f.mode, Size: int64(len(f.data)), Typeflag: tar.TypeReg}
		if err := w.WriteHeader(header); err != nil {
			return nil, err
		}
		if _, err := w.Write(f.data); err != nil {
			return nil, err
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}
