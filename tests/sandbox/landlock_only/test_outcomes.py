"""Runs the tests of the namespace backend about outcomes on the landlock backend."""

import pytest

from tests.sandbox.test_outcomes import (  # noqa: F401  (collected here, with this folder's `box`)
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
    test_modules_can_be_preloaded,
    test_output_streams_while_the_job_runs,
    test_printing_something_that_looks_like_a_result_does_not_become_the_result,
    test_random_state_is_fresh_in_every_box,
    test_the_value_of_a_script_is_that_of_its_last_expression,
)

pytestmark = pytest.mark.asyncio(loop_scope="module")
