"""The page of a result: one HTML file that needs nothing else, offline, on a phone, on paper, in
light and in dark."""

from conecollapse.report.page import page, write_report

__all__ = ["page", "write_report"]
