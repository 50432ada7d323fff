# SPDX-License-Identifier: Apache-2.0
"""What the demo and the integration tests share: processes, the stand-in API server, a small
Kubernetes client, the readiness record and the CNI binary. Python's standard library only."""
