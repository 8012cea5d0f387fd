"""`ottla`, the command line. A command's module is imported when the command is called, the SDK when it connects."""
