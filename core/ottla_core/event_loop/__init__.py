"""Tasks share an event loop: long work goes in slices, tasks are ended, and long turns are noticed."""
