"""F35: every coordinator and broker is restarted over and over beside clients that write exactly once."""
