"""Runs the tests of the namespace backend on containers, since every sandbox must pass them.

They are imported by name, so that pytest finds them here and passes them the `box` of this package.
"""

import pytest

from tests.sandbox.test_isolation import (  # noqa: F401  (collected here)
    canary,
    test_a_32_bit_system_call_kills_or_fails,
    test_abstract_unix_sockets_of_the_host_are_out_of_reach,
    test_no_descriptor_of_the_engine_is_inherited,
    test_nothing_of_the_host_is_seen,
    test_other_languages_are_as_confined,
    test_the_kernel_refuses,
)
from tests.sandbox.test_limits import (  # noqa: F401  (collected here)
    test_a_caught_limit_is_reported_even_if_the_job_succeeds,
    test_a_limit_ends_the_job_with_its_own_reason,
    test_endless_output_does_not_fill_the_memory_of_the_engine,
    test_usage_covers_the_whole_process_tree,
)
from tests.sandbox.test_outcomes import (  # noqa: F401  (collected here)
    test_a_call_that_leaves_the_process_is_an_error_even_with_exit_code_zero,
    test_a_call_that_returns_what_json_cannot_represent_says_what_to_return_instead,
    test_a_file_that_would_leave_the_folder_is_refused_before_anything_runs,
    test_a_job_imports_the_modules_that_it_names,
    test_an_exception_comes_back_with_its_own_frames_only,
    test_any_json_value_is_returned_unchanged,
    test_calling_a_function_in_another_language_is_refused,
    test_each_job_gets_a_fresh_box,
    test_every_language_reads_its_input_and_arguments,
    test_exit_codes_are_those_of_the_script,
    test_files_go_in_and_come_out,
    test_output_streams_while_the_job_runs,
    test_printing_something_that_looks_like_a_result_does_not_become_the_result,
    test_the_value_of_a_script_is_that_of_its_last_expression,
)

pytestmark = [pytest.mark.docker, pytest.mark.asyncio(loop_scope="module"), pytest.mark.spec("BOX-9")]
