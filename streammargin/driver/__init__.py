"""The driver: memory plan, reader thread, the loop of passes, stopping and events."""
