"""Other people's programs that ottla is tested and measured against, each at a pinned version.

Everything is installed by the first that asks for it, into `.peers/` or by Debian's packages, and stays there.
A program that can't be installed is an error, never a test that is passed over.
"""
