-- One connection with its prepared statements.
--
-- sysbench cannot fetch what a prepared statement returns, so a query whose values the transaction needs is sent as
-- text; all changes, BEGIN, COMMIT, ROLLBACK and queries whose result only goes to the terminal are prepared.
local Session = {}
Session.__index = Session

local TEXT_LENGTH_MAX = 512
local INTEGER = ("i"):byte()

function Session.new(connection)
   local session = setmetatable({ connection = connection, statements = {} }, Session)
   session:prepare("begin", "BEGIN", "")
   session:prepare("commit", "COMMIT", "")
   session:prepare("rollback", "ROLLBACK", "")
   return session
end

-- Prepares a statement. `types` has one letter per parameter: i an integer, s text.
function Session:prepare(name, query, types)
   local handle = self.connection:prepare(query)
   local parameters = {}
   for letter in types:gmatch(".") do
      local parameter
      if letter == "i" then
         parameter = handle:bind_create(sysbench.sql.type.BIGINT)
      else
         parameter = handle:bind_create(sysbench.sql.type.VARCHAR, TEXT_LENGTH_MAX)
      end
      parameters[#parameters + 1] = parameter
   end
   if #parameters > 0 then
      handle:bind_param(unpack(parameters))
   end
   self.statements[name] = { handle = handle, parameters = parameters, types = types }
end

-- Executes a prepared statement; what it returns is received and dropped. An integer may come as text.
-- Errors: a table with errcode and sql_errno for what may be retried, else text.
function Session:execute(name, ...)
   local statement = self.statements[name]
   for position, parameter in ipairs(statement.parameters) do
      local value = select(position, ...)
      parameter:set(statement.types:byte(position) == INTEGER and tonumber(value) or value)
   end
   statement.handle:execute()
end

-- Runs a query of text; returns the values of its first row, nothing when there is none. Errors: as execute().
function Session:row(query, ...)
   local result = self.connection:query(query:format(...))
   if result.nrows == 0 then
      return
   end
   return unpack(result:fetch_row(), 1, result.nfields)
end

-- Runs a query of text; returns an array of its rows. Errors: as execute().
function Session:rows(query, ...)
   local result = self.connection:query(query:format(...))
   local rows = {}
   for position = 1, tonumber(result.nrows) do
      rows[position] = result:fetch_row()
   end
   return rows
end

function Session:close()
   for _, statement in pairs(self.statements) do
      statement.handle:close()
   end
   self.connection:disconnect()
end

return Session
