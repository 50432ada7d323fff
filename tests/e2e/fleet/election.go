// SPDX-License-Identifier: Apache-2.0

package main

import "time"

const etcdMembers = 3

// elections kill the leader of several members of etcd, which only this storm has: under each of the fleets that went
// through the others.
func (m *measure) elections() error {
	if err := m.startPlane(etcdMembers); err != nil {
		return err
	}
	for _, before := range m.out.Storms {
		if err := m.plane.StartEtcd(); err != nil { // the one that was killed
			return err
		}
		if err := m.election(before); err != nil {
			return err
		}
	}
	return nil
}

func (m *measure) election(before *stormResult) error {
	f, err := m.newFleet(before.Scheme, before.N)
	if err != nil {
		return err
	}
	defer f.stop()
	if err := m.start(f); err != nil {
		return err
	}
	time.Sleep(interval) // whatever belongs to the start
	s := &stormy{m: m, f: f, out: before}
	return s.phase("leader of three members of etcd killed", 3*interval, func() error {
		leader, err := m.plane.EtcdLeader(m.ctx)
		if err == nil {
			leader.Kill()
		}
		return err
	})
}
