"""The forms there are, by the mode that users ask for."""

from __future__ import annotations

from vnetperf.vnfs.vloop.forms.bridge import Bridge
from vnetperf.vnfs.vloop.forms.form import Form
from vnetperf.vnfs.vloop.forms.route import Route
from vnetperf.vnfs.vloop.forms.xdp import Xdp

FORMS: dict[str, type[Form]] = {form.name: form for form in (Bridge, Route, Xdp)}
