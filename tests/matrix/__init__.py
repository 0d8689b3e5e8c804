"""The shim matrix: every option, trap, signal and kind of ending, under each bash."""
