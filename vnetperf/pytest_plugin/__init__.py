"""The pytest plugin: options, fixtures, parametrisation, summary."""
