"""What people bring, read by its form: one room a form, each from a text to its pieces."""
