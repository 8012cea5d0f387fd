"""What went wrong once, each with the test that tells it and with the mend as an edit that can be taken out again."""
