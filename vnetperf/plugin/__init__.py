"""The contracts of plugins, a file for each family, and the registry that finds them."""
