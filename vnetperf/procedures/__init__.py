"""The tests that are no search, each in a file: its course, its inputs, what it takes."""
