"""What classes of all plugin families declare: programs, modules, a section of the testbed file."""

from __future__ import annotations

from typing import Any, ClassVar

from vnetperf.model.base import Frozen
from vnetperf.model.testbed import KernelModule, MachineFacts, Program, Testbed


class Requirements:
    """What a class of a plugin family owns and declares.

    Attributes:
        name: What users call it.
        programs: Programs that it starts: the inventory looks for them, `vnetperf doctor` lists
            them, and a testbed file may name their paths under `[programs]`.
        kernel_modules: Kernel modules that it needs: the inventory looks for them.
        Section: The table `[name]` of a testbed file; the default has no keys.
    """

    name: ClassVar[str]
    programs: ClassVar[tuple[Program, ...]] = ()
    kernel_modules: ClassVar[tuple[KernelModule, ...]] = ()
    Section: ClassVar[type[Frozen]] = Frozen

    @classmethod
    def read_section(cls, testbed: Testbed) -> Any:
        """Its table of a testbed file.

        Args:
            testbed: The testbed.

        Returns:
            A `Section`.
        """
        return cls.Section.model_validate(testbed.sections.get(cls.name, {}))

    @classmethod
    def external_program(cls, testbed: Testbed, path: str) -> str:
        """What stands for its program, where the testbed file places it elsewhere.

        Args:
            testbed: The testbed.
            path: Where its first program was found on this machine; "" for nowhere.

        Returns:
            "at HOST", or the path.
        """
        return path

    @classmethod
    def look(cls, testbed: Testbed) -> Any:
        """What it looks at on a machine beside the programs and modules that it declares.

        Args:
            testbed: The testbed.

        Returns:
            JSON values, which `missing` finds in the machine's facts (`seen`); None for nothing.
        """

    @classmethod
    def missing_requirement(cls, facts: MachineFacts) -> str:
        """The first of its programs and modules that a machine lacks, the optional ones aside.

        Args:
            facts: The machine.

        Returns:
            "" when all are there; otherwise what is missing and the cure, in one sentence.
        """
        programs = (facts.missing_program(p) for p in cls.programs if not p.optional)
        modules = (facts.missing_module(m) for m in cls.kernel_modules if not m.optional)
        return next((text for text in (*programs, *modules) if text), "")
