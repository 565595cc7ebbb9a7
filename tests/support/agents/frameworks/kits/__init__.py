"""The same agent in each framework: `make(url, output=None)`, with the tools `orders`, `refund` and `boom`."""
