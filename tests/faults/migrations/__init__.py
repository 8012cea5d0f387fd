"""F32: groups change between the classic and the consumer protocol while members and services are killed."""
