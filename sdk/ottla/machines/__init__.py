"""The rules of the clients as pure machines: no clock, socket, thread or logger; `now` comes in, effects go out."""
