"""Clients written in Go: franz-go and sarama, built once at the versions of go.mod."""
