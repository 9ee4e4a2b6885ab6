"""Forms of vloop in which the kernel forwards: the same steps in a container and in a VM."""

from vnetperf.vnfs.vloop.forms.form import Form, Place, Port, Put, Run, Step
from vnetperf.vnfs.vloop.forms.table import FORMS

__all__ = ["FORMS", "Form", "Place", "Port", "Put", "Run", "Step"]
