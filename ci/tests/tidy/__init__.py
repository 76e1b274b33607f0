# SPDX-License-Identifier: Apache-2.0
"""Checks of the tree itself. Each is a function from a Tree to a list of Findings; __main__.py runs one by name."""
