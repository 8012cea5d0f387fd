"""A topic as a table: `view` holds the latest value of each key, `follower` keeps it up, `table` is the face.

`watch` is for those who want each change, `snapshot` for a fast start.
"""
