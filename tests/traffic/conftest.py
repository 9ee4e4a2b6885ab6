"""Read before the tests are: scapy warns about the machine when it is imported."""

from __future__ import annotations

import logging

logging.getLogger("scapy").setLevel(logging.CRITICAL)
