"""Append-only record of every change: who did what to which object, and how it looked before and after."""
