"""The request and the plan of an agent eval."""
