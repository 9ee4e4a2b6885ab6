"""The pytest plugin: options, fixtures, parametrisation, summary.

pytest rewrites the asserts of every module of a package that brings a plugin: seconds for hundreds
of modules in which no test is. Those of the contract kits register themselves.
"""

import sys

for _finder in sys.meta_path:
    getattr(_finder, "_must_rewrite", set()).discard("vnetperf")
    getattr(_finder, "_marked_for_rewrite_cache", {}).clear()
