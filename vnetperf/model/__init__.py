"""The project's values: frozen, validated, without any I/O. Imports nothing of the project.

Nothing is imported here: the guardian needs `errors` alone, and pydantic would slow its start.
"""
