"""Guest images: what goes in, how they are kept, and one that boots."""
