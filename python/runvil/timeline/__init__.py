"""A run log as a timeline, for people: what the log's lines mean together, and the page that shows it."""

from runvil.timeline.entries import (
    Conversation,
    Entry,
    Note,
    RequestedCall,
    Round,
    SectionClosed,
    SectionOpened,
    SkippedLine,
    Summary,
    ToolCall,
)
from runvil.timeline.lines import NotARunLogError, read_lines
from runvil.timeline.page import write_page
from runvil.timeline.timeline import Timeline

__all__ = [
    "Conversation",
    "Entry",
    "NotARunLogError",
    "Note",
    "RequestedCall",
    "Round",
    "SectionClosed",
    "SectionOpened",
    "SkippedLine",
    "Summary",
    "Timeline",
    "ToolCall",
    "read_lines",
    "write_page",
]
