"""Memory's own REST: memories by their ids, errors as RFC 9457 says them."""
