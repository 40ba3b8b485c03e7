"""The report of a run: one HTML page that needs nothing else, offline, on a phone, in light and in dark."""

from conecollapse.report.page import page, write_report

__all__ = ["page", "write_report"]
