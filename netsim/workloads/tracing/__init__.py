"""What the end of a job, or a request to a served model, waited for."""
