"""A search may take long on a machine under load; that is not what these tests are about."""

from __future__ import annotations

from hypothesis import settings

settings.register_profile("search", settings.default, deadline=None)
settings.load_profile("search")
