"""What names mean while a plan is made: variables, locals, modules, resources."""
