"""How tasks share an event loop: long work in slices, tasks that are ended, and a watch over long turns."""
