"""The controller: every change of cluster state, written to etcd."""
