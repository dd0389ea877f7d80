"""A client of `host`: enqueues jobs and waits for them. See the README of this package."""

from .api import JobOptions, NewJob
from .client import Client
from .errors import (
    HostError,
    JobCancelled,
    JobEnded,
    JobFailed,
    Refused,
    ResultWithheld,
    SettingsError,
    Unreachable,
    WaitTimeout,
)
from .events import Changed, Event, Events, Missed, Progressed

__all__ = [
    "Changed",
    "Client",
    "Event",
    "Events",
    "HostError",
    "JobCancelled",
    "JobEnded",
    "JobFailed",
    "JobOptions",
    "Missed",
    "NewJob",
    "Progressed",
    "Refused",
    "ResultWithheld",
    "SettingsError",
    "Unreachable",
    "WaitTimeout",
]
