"""This package runs the product's own services in a world of one seed.

The world has virtual time, disks that forget, a network that is cut, and kills.

Everything that the operating system gives a process comes from here: clocks, chance, threads, files, sockets, gRPC
and etcd. The services themselves run unchanged. See docs/design/simulation.md.
"""
