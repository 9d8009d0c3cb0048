"""What an author writes, read strictly: specs, templates, schemas, roles."""
