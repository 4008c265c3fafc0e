"""The tables of the audit log and of the schema's version."""

from tunnelmesh.audit.models.audit_event import AuditEvent
from tunnelmesh.audit.models.schema_meta import SchemaMeta

__all__ = ["AuditEvent", "SchemaMeta"]
