"""A topic as a table: `view` holds the latest value of each key, `follower` keeps it up to date, `table` is the public
class.

`watch` reports each change; `snapshot` makes a start fast.
"""
