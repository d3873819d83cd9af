"""The YARN side of a job's master: containers, heartbeats, node launches and the web proxy."""
