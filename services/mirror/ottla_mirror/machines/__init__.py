"""What a mirror copies and where to, as rules without IO."""
