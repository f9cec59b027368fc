"""The round, its slots, the client function and the seam between the server's side and the clients'."""
