"""Runs jupyter_kernel_test, Jupyter's own tests of kernels, on ours."""

from typing import ClassVar

import jupyter_kernel_test
import pytest

from tests.sandbox.kernels.jupyter.private import NAME


@pytest.mark.spec("KERN-2", "KERN-4")
@pytest.mark.usefixtures("jupyter_home")
class TestBoxedKernel(jupyter_kernel_test.KernelTests):
    # Tests without a sample here are skipped. These are the tests of history, which a kernel in a box does not keep.
    kernel_name = NAME
    language_name = "python"
    file_extension = ".py"
    code_hello_world = "print('hello, world')"
    code_stderr = "import sys; print('oops', file=sys.stderr)"
    completion_samples: ClassVar = [
        {"text": "zi", "matches": {"zip"}},
        {"text": "import colle", "matches": {"collections"}},
    ]
    complete_code_samples: ClassVar = ["1", "print('hello, world')", "def f(x):\n  return x * 2\n\n"]
    incomplete_code_samples: ClassVar = ["print('''hello", "def f(x):\n  x * 2"]
    invalid_code_samples: ClassVar = ["import = 7q"]
    code_page_something = "zip?"
    code_generate_error = "raise ValueError('no')"
    code_execute_result: ClassVar = [{"code": "6 * 7", "result": "42"}]
    code_display_data: ClassVar = [
        {"code": "from IPython.display import HTML, display\ndisplay(HTML('<b>x</b>'))", "mime": "text/html"},
        {"code": "from IPython.display import Math, display\ndisplay(Math('\\\\frac{1}{2}'))", "mime": "text/latex"},
    ]
    code_inspect_sample = "zip"
    code_clear_output = "from IPython.display import clear_output; clear_output()"
